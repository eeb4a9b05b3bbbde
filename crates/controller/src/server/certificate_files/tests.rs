use policy_sync_testenv::certificates::{Authority, Identity};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tempfile::TempDir;

use super::*;
use policy_sync_api::text::with_causes;

struct Folder(TempDir, Authority, Arc<CertificateResolver>);

impl Folder {
    fn new() -> Self {
        let folder = Self(TempDir::new().unwrap(), Authority::new("ca").unwrap(), Arc::default());
        folder.write_both(&folder.1.server("first").unwrap());
        folder
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.0.path().join(name), text).unwrap();
    }

    fn write_both(&self, Identity { certificate, key }: &Identity) {
        self.write("tls.crt", certificate);
        self.write("tls.key", key);
    }

    fn read(&self) -> Result<CertificateFiles, String> {
        let folder = self.0.path();
        let name = folder.display().to_string() + "/";
        CertificateFiles::read(folder, self.2.clone()).map_err(|error| with_causes(&error).replace(&name, ""))
    }

    /// Whether this certificate is served.
    fn serves(&self, identity: &Identity) -> bool {
        let certificate = CertificateDer::from_pem_slice(identity.certificate.as_bytes()).unwrap();
        self.2.served().is_some_and(|served| *served == [certificate])
    }
}

#[test]
fn invalid_files_are_reported_by_name() {
    let folder = Folder::new();
    assert!(folder.read().is_ok());
    let Identity { certificate, key } = folder.1.server("other").unwrap();
    folder.write("tls.key", &key);
    let error = folder.read().unwrap_err();
    assert!(error.starts_with("tls.key is not the key of tls.crt"), "{error}");
    folder.write("tls.crt", &certificate);
    assert!(folder.read().is_ok());
    folder.write("tls.key", "no key");
    assert!(folder.read().unwrap_err().starts_with("cannot read tls.key: "));
    folder.write("tls.crt", "");
    assert_eq!(folder.read().unwrap_err(), "tls.crt has no certificate");
    fs::remove_file(folder.0.path().join("tls.crt")).unwrap();
    assert!(folder.read().unwrap_err().starts_with("cannot read tls.crt: No such file"));
}

#[tokio::test(start_paused = true)]
async fn changed_files_are_served_and_invalid_ones_ignored() {
    let folder = Folder::new();
    let first = folder.1.server("first").unwrap();
    folder.write_both(&first);
    let files = folder.read().unwrap();
    let (authority, stop) = (files.authority(), CancellationToken::new());
    assert_eq!(*authority.borrow(), None);
    let following = tokio::spawn(files.follow(stop.clone()));
    folder.write("tls.key", "half");
    tokio::time::sleep(3 * POLL_INTERVAL).await;
    assert!(folder.serves(&first));
    let second = folder.1.server("second").unwrap();
    folder.write_both(&second);
    folder.write("ca.crt", "trusted");
    tokio::time::sleep(3 * POLL_INTERVAL).await;
    assert!(folder.serves(&second));
    assert_eq!(authority.borrow().as_deref(), Some("trusted"));
    folder.write("ca.crt", "\n");
    tokio::time::sleep(3 * POLL_INTERVAL).await;
    assert_eq!(*authority.borrow(), None, "whom everybody trusts");
    stop.cancel();
    following.await.unwrap();
}
