/** Completions of commands, options, files and folders for bash, zsh and fish. */
import type { CommandNode } from './command-tree.js'

/** The path of a package for the completions of each shell, and their text. */
export function completions(nodes: readonly CommandNode[]): ReadonlyMap<string, string> {
  return new Map([
    ['usr/share/bash-completion/completions/tidegate', bash(nodes)],
    ['usr/share/zsh/vendor-completions/_tidegate', zsh(nodes)],
    ['usr/share/fish/vendor_completions.d/tidegate.fish', fish(nodes)],
  ])
}

const wordsOf = ({ commands, options }: CommandNode) => [
  ...commands.map(({ name }) => name),
  ...options.map(({ name }) => name),
]
const pathsOf = (nodes: readonly CommandNode[]) =>
  nodes.filter(({ path }) => path.length > 0).map(({ path }) => path.join(' '))
const optionsWith = (nodes: readonly CommandNode[], value: string) => [
  ...new Set(nodes.flatMap(({ options }) => options.filter((each) => each.value === value).map(({ name }) => name))),
]
const quoted = (text: string) => `'${text.replaceAll("'", `'\\''`)}'`

/** Shell code that sets `path` to the words of `words` that name a command. Bash and zsh read it alike. */
function pathLoop(nodes: readonly CommandNode[], words: string): string {
  return `  local path='' word
  for word in ${words}; do
    case "\${path:+$path }$word" in
      ${pathsOf(nodes).map(quoted).join('|')}) path="\${path:+$path }$word" ;;
    esac
  done`
}

function wordCases(nodes: readonly CommandNode[]): string {
  return nodes
    .map((node) => `    ${quoted(node.path.join(' '))}) words=${quoted(wordsOf(node).join(' '))} ;;`)
    .join('\n')
}

function bash(nodes: readonly CommandNode[]): string {
  return `# Completions of tidegate for bash.
_tidegate() {
  local current=\${COMP_WORDS[COMP_CWORD]} previous=\${COMP_WORDS[COMP_CWORD-1]} words=''
${pathLoop(nodes, '"${COMP_WORDS[@]:1:COMP_CWORD-1}"')}
  case $previous in
    ${optionsWith(nodes, 'folder').join('|')}) compopt -o filenames; COMPREPLY=($(compgen -d -- "$current")); return ;;
    ${optionsWith(nodes, 'file').join('|')}) compopt -o filenames; COMPREPLY=($(compgen -f -- "$current")); return ;;
    ${optionsWith(nodes, 'other').join('|')}) return ;;
  esac
  case $path in
${wordCases(nodes)}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  if [[ \${#COMPREPLY[@]} == 0 ]]; then compopt -o default; fi
}
complete -F _tidegate tidegate
`
}

function zsh(nodes: readonly CommandNode[]): string {
  return `#compdef tidegate
# Completions of tidegate for zsh.
_tidegate() {
  local previous=\${words[CURRENT-1]} words_here
${pathLoop(nodes, '"${(@)words[2,CURRENT-1]}"')}
  case $previous in
    ${optionsWith(nodes, 'folder').join('|')}) _files -/; return ;;
    ${optionsWith(nodes, 'file').join('|')}) _files; return ;;
    ${optionsWith(nodes, 'other').join('|')}) return ;;
  esac
  case $path in
${wordCases(nodes).replaceAll(') words=', ') words_here=')}
  esac
  compadd -- \${=words_here} || _files
}
_tidegate "$@"
`
}

function fish(nodes: readonly CommandNode[]): string {
  const lines = nodes.flatMap(({ path, commands, options }) => {
    const here = `complete -c tidegate -n ${quoted(`test "$(__tidegate_path)" = ${quoted(path.join(' '))}`)}`
    return [
      ...commands.map(({ name, description }) => `${here} -f -a ${name} -d ${quoted(description)}`),
      ...options.map(({ name, description, value }) => {
        const form = name.startsWith('--') ? `-l ${name.slice(2)}` : `-s ${name.slice(1)}`
        const parameter = { none: '-f', folder: "-x -a '(__fish_complete_directories)'", file: '-r', other: '-x' }[
          value
        ]
        return `${here} ${form} ${parameter} -d ${quoted(description)}`
      }),
    ]
  })
  return `# Completions of tidegate for fish.
function __tidegate_path
    set -l path
    for word in (commandline -opc)[2..]
        switch (string join ' ' $path $word)
            case ${pathsOf(nodes).map(quoted).join(' ')}
                set -a path $word
        end
    end
    string join ' ' $path
end
${lines.join('\n')}
`
}
