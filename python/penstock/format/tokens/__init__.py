"""Token files (plain, llm.c's, Megatron's, .npy) cut into windows."""
