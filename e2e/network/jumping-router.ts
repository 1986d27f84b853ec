/**
 * A router whose system clock jumps by a day, as an administrator sets it: ahead with the first SIGHUP, back to the day before with the next,
 * and so on. What goes by the steady clock (timers, `performance.now()`) goes on, as it does in the kernel.
 */
const System = Date;
const DAY_MS = 86_400_000;
let jump = 0;

class JumpingDate extends System {
  constructor(...parts: [] | [number]) {
    super(...((parts.length === 0 ? [System.now() + jump] : parts) as [number]));
  }

  static override now(): number {
    return System.now() + jump;
  }
}

globalThis.Date = JumpingDate as DateConstructor;
process.on("SIGHUP", () => {
  jump = jump > 0 ? -DAY_MS : DAY_MS;
  console.log(`the clock has jumped to ${new Date().toISOString()}`);
});
await import("../../router/src/main.ts");
