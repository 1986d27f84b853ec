/** What a shell may offer for a word. */
export interface Candidate {
  readonly text: string;
  readonly description?: string | undefined;
}

/** The shell offers files. */
export const FILES = "files";

export type Offer = readonly Candidate[] | typeof FILES;
