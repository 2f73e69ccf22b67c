use doorbell_sim::scenario::*;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let shape = match &a[1][..] {
        "two" => Shape::two_lanes(),
        "con" => Shape::conserving(),
        "storm" => Shape::storm(),
        "tso" => Shape::storm_tso(),
        _ => Shape::leaps(),
    };
    let r = run_traced::<0>(
        a[2].parse().unwrap(),
        &shape,
        Some(Box::new(move |e| {
            println!("{} t{} {:?} {}", e.time_ns, e.thread, e.kind, e.line)
        })),
    )
    .unwrap();
    println!("{:?}", r.outcome.failure);
}
