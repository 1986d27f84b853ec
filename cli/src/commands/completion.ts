import { SHELLS, shellScript } from "../completion/shells.ts";
import { UsageError, wordHint } from "../errors.ts";
import type { Configure } from "./configure.ts";

const HELP = `
Commands, options, kinds, fields and their values are completed, and the names of entities of the current network.

Load it now:
  source <(sallyport completion bash)
  source <(sallyport completion zsh)
  sallyport completion fish | source

Load it in every shell:
  sallyport completion bash > ~/.local/share/bash-completion/completions/sallyport
  sallyport completion zsh > /usr/local/share/zsh/site-functions/_sallyport
  sallyport completion fish > ~/.config/fish/completions/sallyport.fish
`;

export const configureCompletion: Configure = (command, context) => {
  command
    .description("Prints what a shell has to load to complete command lines.")
    .argument("<shell>", SHELLS.join(", "))
    .addHelpText("after", HELP)
    .action((given: string) => {
      const shell = SHELLS.find((each) => each === given);
      if (shell === undefined) {
        throw new UsageError(`unknown shell '${given}': ${wordHint(given, SHELLS, `expected ${SHELLS.join(", ")}`)}`);
      }
      context.stdout.write(shellScript(shell));
    });
};
