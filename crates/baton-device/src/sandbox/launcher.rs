//! The one thread that starts processes.
//!
//! A sandbox asks the kernel to be killed when its parent dies, and the kernel means the *thread* that started it. A worker thread
//! of the runtime can end at any time and would take running commands with it; this one lives as long as the device.

use std::io;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::mpsc;
use tokio::process::Child;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

struct Order {
    command: Command,
    runtime: Handle,
    reply: oneshot::Sender<io::Result<Child>>,
}

/// Starts a process from the launcher's thread. It is killed when the child is dropped.
pub(super) async fn start(command: Command) -> io::Result<Child> {
    static ORDERS: OnceLock<Result<mpsc::Sender<Order>, String>> = OnceLock::new();
    let orders = ORDERS.get_or_init(|| {
        let (sender, receiver) = mpsc::channel::<Order>();
        let thread = std::thread::Builder::new().name("launcher".to_owned()).spawn(move || serve(&receiver));
        thread.map(|_| sender).map_err(|error| error.to_string())
    });
    let gone = || io::Error::other("the thread that starts processes is gone");
    let (reply, answer) = oneshot::channel();
    let order = Order { command, runtime: Handle::current(), reply };
    orders.as_ref().map_err(|error| io::Error::other(error.clone()))?.send(order).map_err(|_| gone())?;
    answer.await.map_err(|_| gone())?
}

fn serve(orders: &mpsc::Receiver<Order>) {
    while let Ok(Order { command, runtime, reply }) = orders.recv() {
        let _entered = runtime.enter();
        let child = tokio::process::Command::from(command).kill_on_drop(true).spawn();
        // Whoever asked may be gone; the child is then dropped, and so killed.
        let _ = reply.send(child);
    }
}
