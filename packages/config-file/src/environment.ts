export type Environment = Readonly<Record<string, string | undefined>>;

/** `$NAME` and `${NAME}`, where a name begins with a letter or an underscore. Any other dollar sign stays. */
export const SHELL_VARIABLES = /\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))/g;

/** As Go's `os.Expand`: one of `0-9 * # $ @ ! ? -` is a name, `${}` and an unclosed `${` become nothing; there is no escape. */
export const GO_VARIABLES = /\$(?:\{(?:([^}]*)\})?|([*#$@!?\d-]|[A-Za-z_]\w*))/g;

/** Replaces the variables in a text by their values. An unset one becomes nothing and is passed to `onUnset`. */
export function replaceVariables(
  text: string,
  variables: RegExp,
  env: Environment,
  onUnset: (name: string) => void = () => {},
): string {
  return text.replace(variables, (_all, braced: string | undefined, bare: string | undefined) => {
    const name = braced ?? bare ?? "";
    const value = env[name];
    if (value === undefined) onUnset(name);
    return value ?? "";
  });
}
