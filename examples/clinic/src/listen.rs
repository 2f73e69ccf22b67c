//! Where the app listens: at a TCP port, and if asked also at one with TLS and at a Unix socket.

use crate::{ClinicError, Options};
use doorbell::net::{TcpListener, UnixListener};
use doorbell_hyper::TlsListener;
use rustls::ServerConfig;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Why a certificate or its key cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CertificateError {
    /// A file could not be read, or is not PEM.
    #[error(transparent)]
    Pem(#[from] pem::Error),
    /// They do not fit.
    #[error(transparent)]
    Tls(#[from] rustls::Error),
}

/// The listeners.
#[derive(Debug)]
pub(crate) struct Listeners {
    pub(crate) http: TcpListener,
    /// Where `http` listens.
    pub(crate) address: SocketAddr,
    pub(crate) tls: Option<TlsListener<TcpListener>>,
    tls_address: Option<SocketAddr>,
    pub(crate) unix: Option<UnixListener>,
    pub(crate) unix_file: Option<File>,
}

/// The file of a Unix socket, which is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct File(PathBuf);

impl Drop for File {
    fn drop(&mut self) {
        // It may have been removed.
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Listeners {
    /// Binds all that the options ask for.
    pub(crate) fn bind(options: &Options) -> Result<Listeners, ClinicError> {
        let (http, address) = tcp(&options.listen, "--listen")?;
        let (mut tls, mut tls_address) = (None, None);
        if let (Some(address), Some(certificate), Some(key)) =
            (&options.tls, &options.certificate, &options.key)
        {
            let config = config(certificate, key).map_err(|source| ClinicError::Certificate {
                certificate: certificate.clone(),
                key: key.clone(),
                source,
            })?;
            let (listener, address) = tcp(address, "--tls")?;
            tls = Some(TlsListener::new(listener, config));
            tls_address = Some(address);
        }
        let unix = options.unix.as_deref().map(unix).transpose()?;
        Ok(Listeners {
            http,
            address,
            tls,
            tls_address,
            unix,
            unix_file: options.unix.clone().map(File),
        })
    }

    /// Prints where it listens, and flushes, which matters if the output is not a terminal.
    pub(crate) fn say(&self) -> io::Result<()> {
        let mut out = io::stdout().lock();
        writeln!(out, "listening on http://{}", self.address)?;
        if let Some(address) = self.tls_address {
            writeln!(out, "listening on https://{address}")?;
        }
        if let Some(file) = &self.unix_file {
            writeln!(out, "listening on unix:{}", file.0.display())?;
        }
        out.flush()
    }
}

fn tcp(address: &str, option: &'static str) -> Result<(TcpListener, SocketAddr), ClinicError> {
    let listen = || {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        Ok((listener, address))
    };
    listen().map_err(|source| ClinicError::Listen {
        address: address.to_owned(),
        option,
        source,
    })
}

fn unix(path: &Path) -> Result<UnixListener, ClinicError> {
    UnixListener::bind(path).map_err(|source| ClinicError::ListenUnix {
        path: path.to_owned(),
        source,
    })
}

fn config(certificate: &Path, key: &Path) -> Result<ServerConfig, CertificateError> {
    let chain = CertificateDer::pem_file_iter(certificate)?.collect::<Result<_, _>>()?;
    let key = PrivateKeyDer::from_pem_file(key)?;
    let config = ServerConfig::builder().with_no_client_auth();
    Ok(config.with_single_cert(chain, key)?)
}
