import { type Profiler as CpuProfiler, type HeapProfiler, Session } from "node:inspector/promises";

/** Takes profiles of this thread, in the forms that Chrome DevTools opens. */
export class Profiler {
  readonly #session = new Session();

  constructor() {
    this.#session.connect();
  }

  async startCpu(): Promise<void> {
    await this.#session.post("Profiler.enable");
    await this.#session.post("Profiler.start");
  }

  async stopCpu(): Promise<CpuProfiler.Profile> {
    return (await this.#session.post("Profiler.stop")).profile;
  }

  /** Samples allocations from now on. */
  async startHeap(): Promise<void> {
    await this.#session.post("HeapProfiler.enable");
    await this.#session.post("HeapProfiler.startSampling");
  }

  /** What was allocated since the start and still lives. */
  async heap(): Promise<HeapProfiler.SamplingHeapProfile> {
    return (await this.#session.post("HeapProfiler.getSamplingProfile")).profile;
  }

  async stopHeap(): Promise<HeapProfiler.SamplingHeapProfile> {
    return (await this.#session.post("HeapProfiler.stopSampling")).profile;
  }

  close(): void {
    this.#session.disconnect();
  }
}
