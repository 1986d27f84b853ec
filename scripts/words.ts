/** Words that this project does not use, and what to write instead. The reasons are in docs/contribute/style.md. */
export interface Word {
  /** Matches the word anywhere in prose, comments, strings and names. */
  readonly pattern: RegExp;
  readonly instead: string;
  /** Text around the word that makes it right, such as the name of a Unix user. */
  readonly unless?: RegExp;
}

export const WORDS: readonly Word[] = [
  { pattern: /beholders?/i, instead: "viewer" },
  { pattern: /\bbreath(?:s|e|es)?\b|Breath/, instead: "time slice" },
  { pattern: /hindrances?/i, instead: "blocked reason" },
  { pattern: /rehears(?:al|als|e|es|ed|ing)/i, instead: "dry run" },
  { pattern: /left-?overs?\b/i, instead: "orphan, or stale" },
  { pattern: /trouble(?!shoot)s?/i, instead: "reconcile failure, fault or error" },
  {
    pattern: /\bnobody(?:'s)?\b/i,
    instead: "the actor's name, or passive voice",
    unless: /["'(]nobody["')]|nobody\.|65534/,
  },
  { pattern: /\b(?:some|any|every)body(?:'s|'s)?\b/i, instead: "the actor's name: the client, an administrator, …" },
  { pattern: /\bwhoever\b/i, instead: "the actor's name" },
  { pattern: /\bstrangers?(?:'s)?\b/i, instead: "unauthenticated client, or unknown host" },
  { pattern: /\banew\b/i, instead: "again, or new" },
  { pattern: /\bfor ever\b/i, instead: "forever, or without end" },
  { pattern: /\bto be had\b/i, instead: "available" },
  { pattern: /\btold apart\b/i, instead: "distinguished" },
  { pattern: /\bin vain\b/i, instead: "without success" },
  { pattern: /\bmend(?:s|ed|ing)?\b/i, instead: "fix or repair" },
  { pattern: /\b(?:lost its|lose their|keep their|keeps its) worth\b/i, instead: "is no longer valid, or stays valid" },
  { pattern: /\bof (?:yours|ours)\b/i, instead: "your …, or Sallyport's …" },
  { pattern: /\bthe house\b/i, instead: "this repository" },
  { pattern: /\bnurser(?:y|ies)\b/i, instead: "young generation" },
  {
    pattern:
      /\bpeer(?:'s|s'|’s) (?:own )?(?:CLI|command|controller|router|program|tunneler|SDK|suite|validator|console|answer|schema|module)/i,
    instead: "OpenZiti's",
  },
  {
    pattern:
      /\bthe peer (?:allows|answers|asks|does|grants|ignores|keeps|lets|mixes|prints|refuses|sends|signs|stores|takes|treats|writes)\b/i,
    instead: "OpenZiti",
  },
];

/** Where the check holds: globs of files. */
export const CHECKED: readonly string[] = [
  "*.md",
  "docs/**/*.md",
  "{helm,examples}/**/*.{md,yaml,ts,js}",
  "{packages/*,controller,router,operator,cli}/src/**/*.ts",
  "{bench,e2e,images,scripts}/**/*.ts",
];
