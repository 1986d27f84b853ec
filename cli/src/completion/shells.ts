/** What a shell has to load so that it asks `sallyport` for what a word may become. */

export const SHELLS = ["bash", "zsh", "fish"] as const;
export type Shell = (typeof SHELLS)[number];

const BASH = `# bash: source <(sallyport completion bash)
_sallyport() {
  # Bash splits words at = and : as well; here they belong together unless there is a blank between.
  local rest=\${COMP_LINE:0:COMP_POINT} word line i
  local -a words=()
  for ((i = 0; i <= COMP_CWORD; i++)); do
    word=\${COMP_WORDS[i]}
    if ((i == 0)) || [[ $rest == [[:space:]]* ]]; then words+=("$word"); else words[-1]+=$word; fi
    rest=\${rest#"\${rest%%[![:space:]]*}"}
    rest=\${rest#"$word"}
  done
  local whole=\${words[-1]} current=\${COMP_WORDS[COMP_CWORD]}
  [[ $current == [=:] ]] && current=
  local glued=\${whole%"$current"}
  COMPREPLY=()
  while IFS= read -r line; do
    if [[ $line == :files ]]; then
      compopt -o default
      return
    fi
    line=\${line%%$'\\t'*}
    line=\${line#"$glued"}
    [[ $line == *= ]] && compopt -o nospace
    if [[ $line == -* ]]; then COMPREPLY+=("$line"); else COMPREPLY+=("$(printf %q "$line")"); fi
  done < <(SALLYPORT_COMPLETE=bash "\${words[0]}" __complete "\${words[@]:1}" 2>/dev/null)
}
complete -F _sallyport sallyport
`;

const ZSH = `#compdef sallyport
# zsh: source <(sallyport completion zsh), or put this file into a folder of $fpath as _sallyport
_sallyport() {
  local line
  local -a names texts open
  for line in "\${(@f)$("\${(Q)words[1]}" __complete "\${(@Q)words[2,CURRENT-1]}" "\${(Q)PREFIX}" 2>/dev/null)}"; do
    [[ -z $line ]] && continue
    if [[ $line == :files ]]; then
      _files
      return
    fi
    if [[ $line == *= ]]; then open+=("$line"); continue; fi
    names+=("\${line%%$'\\t'*}")
    if [[ $line == *$'\\t'* ]]; then texts+=("\${line%%$'\\t'*}  -- \${line#*$'\\t'}"); else texts+=("$line"); fi
  done
  ((\${#open})) && compadd -S '' -a open
  ((\${#names})) && compadd -l -d texts -a names
  return 0
}
if [[ "\${funcstack[1]}" == _sallyport ]]; then _sallyport "$@"; else compdef _sallyport sallyport; fi
`;

const FISH = `# fish: sallyport completion fish | source, or save it as ~/.config/fish/completions/sallyport.fish
function __sallyport_complete
    set -l before (commandline -opc)
    set -l current (commandline -ct)
    set -q current[1]; or set current ""
    for line in ($before[1] __complete $before[2..] $current 2>/dev/null)
        if test "$line" = ":files"
            __fish_complete_path $current
        else
            echo $line
        end
    end
end
complete -c sallyport -f -a "(__sallyport_complete)"
`;

const SCRIPTS: Readonly<Record<Shell, string>> = { bash: BASH, zsh: ZSH, fish: FISH };

export function shellScript(shell: Shell): string {
  return SCRIPTS[shell];
}
