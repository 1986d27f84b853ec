/** Turns the login by OIDC of our controller on or off, in the file that `init` writes, or in one that was changed by this. */
export function withOidc(settings: string, isEnabled: boolean): string {
  const changed = settings.replace(/^( {2}oidc:\n) {4}(?:# )?enabled: \w+$/m, `$1    enabled: ${isEnabled}`);
  if (!changed.includes(`  oidc:\n    enabled: ${isEnabled}\n`))
    throw new Error("the settings have no section edge.oidc");
  return changed;
}
