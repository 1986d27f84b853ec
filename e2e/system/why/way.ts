import type { Subject } from "./subject.ts";

/** A way to break a network that works, with the code that has to come first in the answer. */
export interface Way {
  readonly what: string;
  /** Of the problem that comes first, or how the code begins. */
  readonly code: string;
  /** A part of its message. */
  readonly message?: string;
  /** A part of the first remedy. */
  readonly remedy?: string;
  /** What an application reads; dates are looked for, not their values. */
  readonly saidBySdk?: RegExp;
  /** @returns what repairs it */
  readonly breakIt: (subject: Subject) => Promise<() => Promise<unknown>>;
}

/** What a list of the API answers. */
type Listed = Promise<{ readonly data: readonly { readonly id: string }[] }>;

/** The parameters that name the only entity of a list. */
export async function only(list: Listed): Promise<{ readonly params: { readonly id: string } }> {
  const [found, ...more] = (await list).data;
  if (found === undefined || more.length > 0) throw new Error("there has to be exactly one entity of this name");
  return { params: { id: found.id } };
}

export const named = (name: string) => ({ query: { filter: `name = "${name}"` } });
export const id = (of: string) => ({ params: { id: of } });
