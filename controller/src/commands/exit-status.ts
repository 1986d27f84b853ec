/** Exit statuses, as `--help` lists them. */
export const ExitStatus = { Done: 0, Failed: 1, Usage: 2, Configuration: 3, Held: 4 } as const;
