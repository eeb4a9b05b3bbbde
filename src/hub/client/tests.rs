use tokio::net::TcpListener;
use tokio::time::{Instant, timeout};

use super::*;

#[tokio::test(start_paused = true)]
async fn a_request_on_a_connection_that_says_nothing_ends() {
    // Connections are made by the system, and nobody takes them.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let mut config = Config::new(address.parse().unwrap());
    give_up_on_silence(&mut config);
    let client = Client::try_from(config).unwrap();
    let start = Instant::now();
    let answer = timeout(READ_TIMEOUT * 3, client.list_api_groups()).await;
    answer.expect("it ends by itself").expect_err("nobody answers");
    assert!(start.elapsed() >= READ_TIMEOUT);
}
