import { Context } from "@sallyport/sdk";

/** The SDK's contexts of a suite, which look for changes often. */
export class Contexts {
  readonly #loaded: Context[] = [];

  async load(file: string): Promise<Context> {
    const context = await Context.load(file, { refreshIntervalMs: 500 });
    this.#loaded.push(context);
    return context;
  }

  async close(): Promise<void> {
    for (const context of this.#loaded) await context.close();
  }
}
