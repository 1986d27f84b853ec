import { REFUSED_LOGIN_MS } from "../../../controller-client/connection.ts";
import { LoginGate } from "../../../controller-client/login-gate.ts";

/**
 * Remembers, over all looks at a Network, whether the password of its first administrator was refused: people log in as that one too, and must not be
 * locked out because the operator tries an old password with every look.
 */
export class FirstLogins {
  readonly #gates = new Map<string, { readonly password: string; readonly gate: LoginGate }>();
  readonly #waitMs: number;

  /** @param waitMs from a refused password to the one other attempt */
  constructor(waitMs = REFUSED_LOGIN_MS) {
    this.#waitMs = waitMs;
  }

  /** Another password begins anew. */
  gateOf({ namespace, name }: { readonly namespace: string; readonly name: string }, password: string): LoginGate {
    const key = `${namespace}/${name}`;
    const known = this.#gates.get(key);
    if (known?.password === password) return known.gate;
    const gate = new LoginGate(this.#waitMs, true);
    this.#gates.set(key, { password, gate });
    return gate;
  }

  forget({ namespace, name }: { readonly namespace: string; readonly name: string }): void {
    this.#gates.delete(`${namespace}/${name}`);
  }
}
