/**
 * Loaded before a program in its image. The kernel ignores signals that would end the first process of a container unless it handles them, so
 * until a program listens itself (while it starts, and in commands like `init`) a container could only be killed.
 */
import { constants } from "node:os";

if (process.pid === 1) {
  for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const) {
    process.on(signal, () => {
      // Another listener decides.
      if (process.listenerCount(signal) === 1) process.exit(128 + constants.signals[signal]);
    });
  }
}
