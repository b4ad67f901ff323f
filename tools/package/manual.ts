/** Manual pages: tidegate(1) from the commands, tidegate.json(5) from the schema of the configuration file. */
import type { CommandNode } from './command-tree.js'

interface ManualOptions {
  /** The version without `v`. */
  readonly version: string
  /** `2026-11-28` */
  readonly date: string
}

/** The path of a package for each page, and its text for man(7). */
export function manualPages(
  nodes: readonly CommandNode[],
  /** The configuration file as a JSON Schema. */
  schema: string,
  options: ManualOptions,
): ReadonlyMap<string, string> {
  return new Map([
    ['usr/share/man/man1/tidegate.1', commandPage(nodes, options)],
    ['usr/share/man/man5/tidegate.json.5', configurationPage(schema, options)],
  ])
}

/** Text that troff(1) prints as it is. */
function plain(text: string): string {
  return text.replaceAll('\\', '\\e').replaceAll('-', '\\-').replaceAll(/^[.']/gm, '\\&$&')
}

function commandPage(nodes: readonly CommandNode[], { version, date }: ManualOptions): string {
  const sections = nodes
    .filter(({ commands }) => commands.length === 0)
    .flatMap(({ path, parameters, description, options }) => [
      `.SS ${plain(['tidegate', ...path, parameters].filter((word) => word !== '').join(' '))}`,
      plain(description),
      ...options.flatMap(({ usage, description: what }) => ['.TP', `.B ${plain(usage)}`, plain(what)]),
    ])
  return `.TH TIDEGATE 1 ${date} "Tidegate ${version}"
.SH NAME
tidegate \\- storage gateway: one tree, served over HTTP, WebDAV and SFTP
.SH SYNOPSIS
.B tidegate
[\\fIcommand\\fR] [\\fIoptions\\fR]
.SH DESCRIPTION
${plain(nodes[0]?.description ?? '')}. Without a command, the daemon is run. The other commands change the data folder, whether the daemon is
running or not; a running daemon applies a change within a second.
.SH COMMANDS
${sections.join('\n')}
.SH EXIT STATUS
.TP
0
success
.TP
1
the command failed, or a check found a fault
.TP
2
an argument or the configuration is not valid
.SH FILES
.TP
.I /etc/tidegate/tidegate.json
the configuration of the service
.TP
.I /var/lib/tidegate
the data folder of the service
.TP
.I /usr/lib/tidegate/docs
the documentation
.SH SEE ALSO
.BR tidegate.json (5)
`
}

interface SchemaKey {
  readonly description?: string
  readonly default?: unknown
  readonly type?: string
}

function configurationPage(schema: string, { version, date }: ManualOptions): string {
  const { properties } = JSON.parse(schema) as { readonly properties: Readonly<Record<string, SchemaKey>> }
  const keys = Object.entries(properties)
    .filter(([key]) => key !== '$schema')
    .flatMap(([key, { description = '', default: standard = [] }]) => [
      '.TP',
      `.B ${plain(key)}`,
      plain(`${description} Default: ${JSON.stringify(standard)}.`),
    ])
  return `.TH TIDEGATE.JSON 5 ${date} "Tidegate ${version}"
.SH NAME
tidegate.json \\- configuration of tidegate
.SH DESCRIPTION
A JSON object. Every key is optional, and unknown keys are refused. An option of the command line overrides an environment variable,
which overrides this file. Settings that apply at run time are in the database: see the command "tidegate setting".
.SH KEYS
${keys.join('\n')}
.SH SEE ALSO
.BR tidegate (1)
`
}
