/* What metal_stdlib has. */
