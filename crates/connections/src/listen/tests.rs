use super::*;

#[tokio::test]
async fn listening_on_an_address_in_use_fails() {
    let first = listen(([127, 0, 0, 1], 0).into()).unwrap();
    let address = first.local_addr().unwrap();
    assert!(tokio::net::TcpStream::connect(address).await.is_ok());
    assert_eq!(listen(address).unwrap_err().kind(), io::ErrorKind::AddrInUse);
}
