import type { Logger } from "@sallyport/wire";

/** What every command works with. */
export interface Surroundings {
  readonly env: NodeJS.ProcessEnv;
  /** Takes what the user is told, one line at a time. */
  readonly say: (line: string) => void;
  readonly log: Logger;
}
