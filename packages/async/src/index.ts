/**
 * The small machinery that every package and program needs, written once. It imports nothing.
 *
 * | to | use |
 * |---|---|
 * | wait longer after each failure | {@link Backoff}; {@link backoffDelay} where the failures are counted elsewhere; {@link jittered} |
 * | wait some milliseconds, or less when a signal aborts | {@link pause} |
 * | wait for an answer, and not count the time in which this process itself stood still | {@link pauseAwake} |
 * | stop waiting for a promise when a signal aborts | {@link abortable} |
 * | leave a server that hangs for another one, but none that is busy | {@link unlessHanging}, {@link answersWithin} |
 * | wait until a signal aborts | {@link untilAborted} |
 * | wait until subscribers are called, or some milliseconds | {@link nextCall} |
 * | run tasks side by side and refuse those beyond a bound | {@link Pool} |
 * | do work for each item of a list, some at a time | {@link mapLimit} |
 * | run tasks one after the other | {@link SerialQueue} |
 * | let other work go on during long work | {@link TimeSlice} |
 * | keep at most so many entries | {@link BoundedMap} |
 * | keep a set of small numbers, one bit each | {@link Bitset} |
 * | call everyone who subscribed | {@link Listeners} |
 * | show an error of unknown type | {@link errorText} |
 * | show an error of TLS, or of a certificate, with both times where clocks may differ | {@link tlsErrorText}, {@link outsideDates}, {@link presentedCertificate} |
 *
 * **Back off.** Delays double up to a limit. Jitter spreads out clients that failed at the same moment. Every option of
 * {@link BackoffOptions} has its meaning and default there.
 * ```ts
 * import { Backoff, errorText, pause } from "@sallyport/async";
 *
 * const backoff = new Backoff({ firstMs: 1, maxMs: 4, jitter: [0.75, 1.25] });
 * const stop = AbortSignal.timeout(5_000);
 * async function connect(): Promise<void> {
 *   if (backoff.failures < 3) throw new Error("refused");
 * }
 * while (!stop.aborted) {
 *   try {
 *     await connect();
 *     console.log(`connected after ${backoff.failures} failures`); // prints connected after 3 failures
 *     backoff.reset();
 *     break;
 *   } catch (error) {
 *     console.log(errorText(error)); // prints refused (3 times)
 *     await pause(backoff.next(), stop);
 *   }
 * }
 * ```
 *
 * **Wait, and stop waiting.** `pause` resolves when the signal aborts; `abortable` rejects with the signal's reason.
 * ```ts
 * import { abortable, pause, untilAborted } from "@sallyport/async";
 *
 * const stop = new AbortController();
 * setTimeout(() => stop.abort(new Error("stopped")), 1);
 * await pause(60_000, stop.signal);
 * const never = new Promise<void>(() => {});
 * await abortable(never, stop.signal).catch((error) => console.log(error.message)); // prints stopped
 * await untilAborted(stop.signal);
 * ```
 *
 * **Bound work.** A `Pool` refuses a task when as many wait as may. `mapLimit` takes a whole list. A `SerialQueue` keeps the order.
 * ```ts
 * import { mapLimit, Pool, SerialQueue } from "@sallyport/async";
 *
 * const pool = new Pool({ concurrency: 2, capacity: 1, onError: console.error });
 * const taken = [1, 2, 3, 4].map((n) => pool.offer(async () => void n));
 * console.log(taken); // prints [ true, true, true, false ]
 * await pool.idle();
 *
 * const squares = await mapLimit([1, 2, 3], 2, async (n) => n * n);
 * console.log(squares); // prints [ 1, 4, 9 ]
 *
 * const file = new SerialQueue();
 * void file.run(async () => console.log("first")); // prints first
 * console.log(await file.run(async () => "second")); // prints second
 * ```
 *
 * **Bound memory.** Setting a key makes it the newest; beyond the bound the oldest entry goes.
 * ```ts
 * import { BoundedMap } from "@sallyport/async";
 *
 * const recent = new BoundedMap<string, number>(2);
 * recent.set("a", 1).set("b", 2);
 * recent.touch("a");
 * recent.set("c", 3);
 * console.log([...recent.keys()]); // prints [ 'a', 'c' ]
 * ```
 *
 * **Tell subscribers.** `add` returns the function that removes the listener again.
 * ```ts
 * import { Listeners } from "@sallyport/async";
 *
 * const changed = new Listeners<[name: string, version: number]>();
 * const remove = changed.add((name, version) => console.log(name, version)); // prints policy 7
 * changed.emit("policy", 7);
 * remove();
 * changed.emit("policy", 8);
 * ```
 */

export { Backoff, type BackoffOptions, backoffDelay, type Jitter, jittered } from "./backoff.ts";
export { Bitset } from "./bitset.ts";
export { BoundedMap } from "./bounded-map.ts";
export { type CertificateDates, outsideDates, presentedCertificate, tlsErrorText } from "./certificate-times.ts";
export { errorText } from "./error-text.ts";
export { answersWithin, type HangingOptions, unlessHanging } from "./hanging.ts";
export { Listeners } from "./listeners.ts";
export { mapLimit, Pool, type PoolOptions, SerialQueue } from "./tasks.ts";
export { TimeSlice } from "./time-slice.ts";
export { abortable, MAX_TIMER_MS, nextCall, pause, pauseAwake, untilAborted } from "./waits.ts";
