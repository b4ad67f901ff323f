/** The tree of commands, as completions and the manual page need it. */
import type { Argument, Command } from 'commander'

export interface CommandOption {
  /** `--data`, or `-o` where it has no long form. */
  readonly name: string
  /** As help shows it: `--data <dir>`. */
  readonly usage: string
  readonly description: string
  /** What follows it: nothing, a folder, a file, or another value. */
  readonly value: 'none' | 'folder' | 'file' | 'other'
}

export interface CommandNode {
  /** The words of the command after the name of the program; none for the program itself. */
  readonly path: readonly string[]
  /** As help shows them: `<mount-path> <driver>`. */
  readonly parameters: string
  readonly description: string
  readonly commands: readonly { readonly name: string; readonly description: string }[]
  readonly options: readonly CommandOption[]
}

/** The program and each of its commands, in the order of help. */
export function commandNodes(command: Command, path: readonly string[] = []): readonly CommandNode[] {
  const help = command.createHelp()
  const commands = help.visibleCommands(command).filter((each) => each.name() !== 'help')
  const options = help.visibleOptions(command).map(({ long, short, flags, description, required, optional }) => ({
    name: long ?? short ?? flags,
    usage: flags,
    description,
    value: valueOf(flags, required || optional),
  }))
  const own = {
    path,
    options,
    parameters: command.registeredArguments.map(termOf).join(' '),
    description: command.description(),
    commands: commands.map((each) => ({ name: each.name(), description: each.description() })),
  }
  return [own, ...commands.flatMap((each) => commandNodes(each, [...path, each.name()]))]
}

/** `<file>`, `[file]` where it is optional, `<file...>` where it may be repeated. */
function termOf(argument: Argument): string {
  const name = argument.name() + (argument.variadic ? '...' : '')
  return argument.required ? `<${name}>` : `[${name}]`
}

function valueOf(flags: string, hasValue: boolean): CommandOption['value'] {
  if (!hasValue) return 'none'
  if (flags.includes('<dir>')) return 'folder'
  return flags.includes('<file>') ? 'file' : 'other'
}
