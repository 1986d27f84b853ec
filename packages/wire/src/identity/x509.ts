/**
 * The X.509 library, ready to use.
 *
 * It refuses to load without a reflection polyfill and asks for a WebCrypto provider. So only this file imports it; other
 * packages write `import { x509 } from "@sallyport/wire"`.
 */
import "reflect-metadata";
import { webcrypto } from "node:crypto";
import * as x509 from "@peculiar/x509";

x509.cryptoProvider.set(webcrypto as Crypto);

export { x509 };
