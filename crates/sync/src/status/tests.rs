mod ancestors;
mod classes;
mod folding;
mod gateways;
mod messages;
mod notices;
