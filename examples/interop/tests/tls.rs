//! TLS by rustls over doorbell's connections.

use doorbell::io::tokio::{AsyncReadExt, AsyncWriteExt};
use doorbell::net::{TcpListener, TcpStream};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// A self-signed certificate and its key.
fn certificate() -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    (made.cert.der().clone(), key)
}

fn acceptor(certificate: CertificateDer<'static>, key: PrivateKeyDer<'static>) -> TlsAcceptor {
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

fn connector(trusted: &[CertificateDer<'static>]) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    for certificate in trusted {
        roots.add(certificate.clone()).unwrap();
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    TlsConnector::from(Arc::new(config))
}

/// Echoes what it receives, until the end.
async fn answer(acceptor: TlsAcceptor, stream: TcpStream) -> io::Result<()> {
    let stream = acceptor.accept(stream).await?;
    let (mut reads, mut writes) = doorbell::io::tokio::split(stream);
    doorbell::io::tokio::copy(&mut reads, &mut writes).await?;
    writes.shutdown().await
}

/// Serves each connection. Returns the address.
fn serve(acceptor: TlsAcceptor) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    doorbell::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            drop(doorbell::spawn(answer(acceptor.clone(), stream)));
        }
    });
    address
}

#[doorbell::test(cores = 2)]
async fn what_is_sent_comes_back_on_several_connections() {
    let (certificate, key) = certificate();
    let address = serve(acceptor(certificate.clone(), key));
    let connector = connector(&[certificate]);
    let clients: Vec<_> = (0..4_u8)
        .map(|seed| {
            let connector = connector.clone();
            doorbell::spawn(async move {
                let stream = TcpStream::connect(address).await.unwrap();
                let name = ServerName::try_from("localhost").unwrap();
                let stream = connector.connect(name, stream).await.unwrap();
                let (mut reads, mut writes) = doorbell::io::tokio::split(stream);
                let sent = vec![seed; 100_000];
                let theirs = sent.clone();
                let writer = doorbell::spawn(async move {
                    writes.write_all(&theirs).await.unwrap();
                    writes.shutdown().await.unwrap();
                });
                let mut got = Vec::new();
                reads.read_to_end(&mut got).await.unwrap();
                writer.await.unwrap();
                assert!(got == sent, "{} bytes", got.len());
            })
        })
        .collect();
    for client in clients {
        client.await.unwrap();
    }
}

#[doorbell::test(cores = 2)]
async fn a_certificate_that_nobody_trusts_is_refused() {
    let (certificate, key) = certificate();
    let address = serve(acceptor(certificate, key));
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let refused = connector(&[]).connect(name, stream).await.unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::InvalidData);
    assert!(refused.to_string().contains("UnknownIssuer"), "{refused}");
}
