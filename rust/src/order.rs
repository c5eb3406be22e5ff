//! Which sample comes when: the arithmetic of one epoch's order (see ARCHITECTURE.md, "Order").
