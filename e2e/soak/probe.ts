/** Loaded into every program of a soak (`node --expose-gc --import …`): on SIGUSR2 it prints what the process holds, after collecting garbage. */
process.on("SIGUSR2", () => {
  const collect = (globalThis as { gc?: () => void }).gc;
  collect?.();
  setImmediate(() => {
    collect?.();
    const resources = process.getActiveResourcesInfo();
    const count = (kind: RegExp): number => resources.filter((name) => kind.test(name)).length;
    const { heapUsed, external, rss } = process.memoryUsage();
    const held = { timers: count(/^Timeout$/), sockets: count(/^(TCP|TLS|UDP|Pipe)/), heapUsed, external, rss };
    process.stderr.write(`soak-probe ${JSON.stringify(held)}\n`);
  });
});
