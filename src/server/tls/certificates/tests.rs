use policy_sync_testenv::certificates::{Authority, Identity};
use tempfile::TempDir;

use super::*;

struct Folder(TempDir, Authority);

impl Folder {
    fn new() -> Self {
        let folder = Self(TempDir::new().unwrap(), Authority::new("ca").unwrap());
        folder.write(&folder.1.server("first").unwrap());
        folder
    }

    fn write(&self, Identity { certificate, key }: &Identity) {
        for (name, text) in FILES.iter().zip([certificate, key]) {
            fs::write(self.0.path().join(name), text).unwrap();
        }
    }

    fn read(&self) -> Result<Certificates, String> {
        let folder = self.0.path();
        let name = folder.display().to_string() + "/";
        Certificates::read(folder).map_err(|error| crate::api::text::with_causes(&error).replace(&name, ""))
    }
}

/// What is served.
fn served(certificates: &Certificates) -> Vec<CertificateDer<'static>> {
    certificates.current.read().key.cert.clone()
}

#[test]
fn what_cannot_be_served_is_told_with_its_file() {
    let folder = Folder::new();
    assert!(folder.read().is_ok());
    let Identity { certificate, key } = folder.1.server("other").unwrap();
    let write = |name: &str, text: &str| fs::write(folder.0.path().join(name), text).unwrap();
    write("tls.key", &key);
    let error = folder.read().unwrap_err();
    assert!(error.starts_with("tls.key is not the key of tls.crt"), "{error}");
    write("tls.crt", &certificate);
    assert!(folder.read().is_ok());
    write("tls.key", "no key");
    assert!(folder.read().unwrap_err().starts_with("cannot read tls.key: "));
    write("tls.crt", "");
    assert_eq!(folder.read().unwrap_err(), "tls.crt has no certificate");
    fs::remove_file(folder.0.path().join("tls.crt")).unwrap();
    assert!(folder.read().unwrap_err().starts_with("cannot read tls.crt: No such file"));
}

#[tokio::test(start_paused = true)]
async fn what_changes_is_served_and_what_cannot_be_leaves_the_last_good_one() {
    let folder = Folder::new();
    let certificates = Arc::new(folder.read().unwrap());
    let stop = CancellationToken::new();
    let following = tokio::spawn(certificates.clone().follow(stop.clone()));
    let first = served(&certificates);
    fs::write(folder.0.path().join("tls.key"), "half").unwrap();
    tokio::time::sleep(3 * LOOK_EVERY).await;
    assert_eq!(served(&certificates), first);
    folder.write(&folder.1.server("second").unwrap());
    tokio::time::sleep(3 * LOOK_EVERY).await;
    assert_ne!(served(&certificates), first);
    stop.cancel();
    following.await.unwrap();
}
