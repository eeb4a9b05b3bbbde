mod ancestors;
mod classes;
mod folding;
mod gateways;
mod notices;
mod telling;
