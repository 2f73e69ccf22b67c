use doorbell_sim::scenario::*;
use std::{cell::RefCell, rc::Rc};
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let shape = match &a[1][..] {
        "two" => Shape::two_lanes(),
        "con" => Shape::conserving(),
        "storm" => Shape::storm(),
        "tso" => Shape::storm_tso(),
        _ => Shape::leaps(),
    };
    let from: u64 = a[2].parse().unwrap();
    let to: u64 = a[3].parse().unwrap();
    for seed in from..to {
        let get = || {
            let v = Rc::new(RefCell::new(Vec::new()));
            let w = v.clone();
            let r = run_traced::<0>(
                seed,
                &shape,
                Some(Box::new(move |e| w.borrow_mut().push(*e))),
            )
            .unwrap();
            (r, v.take())
        };
        let (r, x) = get();
        if let Some(f) = &r.outcome.failure {
            println!("seed {seed}: {f} ({} events)", r.outcome.events);
            if a.len() > 4 {
                for t in &r.outcome.threads {
                    println!("{} on {} {}", t.name, t.cpu, t.doing);
                    for e in &t.last {
                        println!("   {:>10} {:?} {}", e.time_ns, e.kind, e.line);
                    }
                }
                return;
            }
        }
        let (_, y) = get();
        if let Some(i) = (0..x.len().max(y.len())).find(|i| x.get(*i) != y.get(*i)) {
            println!("seed {seed} differs at {i}");
            let t = x[i].thread;
            let same: Vec<_> = x[..i]
                .iter()
                .enumerate()
                .filter(|(_, e)| e.thread == t)
                .collect();
            for e in &same[same.len().saturating_sub(12)..] {
                println!("   {e:?}");
            }
            println!(
                " x {:?}\n y {:?}",
                &x[i..(i + 3).min(x.len())],
                &y[i..(i + 3).min(y.len())]
            );
            return;
        }
    }
}
