/** `tidegate audit`: what happened, and who did it. */
import { setTimeout as wait } from 'node:timers/promises'
import { InvalidArgumentError, Option, type Command } from 'commander'
import { csv, ndjson, type AuditFilter, type EventForm } from '../audit/forms.js'
import { newestPages } from '../audit/pages.js'
import { GatewayError } from '../base/errors.js'
import { eventKinds, type EventKind } from '../base/event-kinds.js'
import type { Store } from '../database/tables.js'
import { inDataFolder, withCommonOptions, type CommonFlags } from './data-folder.js'
import { printable } from './output.js'
import { treePath } from './tree-path.js'
import { parseTime } from './users.js'

interface AuditFlags extends CommonFlags {
  readonly from?: string
  readonly to?: string
  readonly user?: string
  readonly path?: string
  readonly kind?: string
  readonly result?: 'done' | 'refused' | 'failed'
  readonly address?: string
  readonly limit?: number
  readonly follow?: boolean
  readonly csv?: boolean
}

const defaultLimit = 100
/** Events that are put in order before they are printed. */
const mostAtOnce = 10_000
/** Events that are read at once while new ones are followed. */
const pageSize = 1000
/** Milliseconds between two looks for new events. */
const followInterval = 500

export function addAuditCommand(program: Command): void {
  withCommonOptions(program.command('audit'))
    .description('what happened, and who did it: the last events, oldest first')
    .option('--from <time>', 'not before this time (RFC 3339)')
    .option('--to <time>', 'before this time')
    .option('--user <username>', 'of a user; also guest, share:PSEUDONYM and gateway:')
    .option('--path <path>', 'about a path of the whole tree, or what is below it')
    .option('--kind <kinds>', 'of these kinds, separated by commas')
    .addOption(new Option('--result <result>', 'with this result').choices(['done', 'refused', 'failed']))
    .option('--address <address>', 'from an address, or from those that begin as it does before a *')
    .option('--limit <number>', `how many; by default ${defaultLimit}, with --json and --csv all`, countOf)
    .option('--follow', 'then print new events, until it is interrupted')
    .addOption(new Option('--csv', 'print CSV (RFC 4180), newest first').conflicts(['json', 'follow']))
    .addHelpText(
      'after',
      `\nKinds: ${eventKinds.join(', ')}.\nWith --json each line is an event; the newest is first, without --follow.`,
    )
    .action((flags: AuditFlags) => {
      const filter = filterOf(flags)
      const { limit, json = false, follow = false } = flags
      const isStream = flags.csv === true || (json && !follow)
      if (!isStream && (limit ?? 0) > mostAtOnce) {
        throw new GatewayError('invalid', { reason: `more than ${mostAtOnce} events are printed with --json or --csv` })
      }
      // The reader may have seen enough.
      process.stdout.on('error', () => process.exit(0))
      return inDataFolder(flags, async ({ store: { audit } }) => {
        const form = flags.csv === true ? csv : json ? ndjson : lines
        process.stdout.write(form.head)
        if (isStream) {
          for await (const events of newestPages(audit, filter, { limit: limit ?? Infinity })) {
            process.stdout.write(events.map((event) => form.of(event)).join(''))
          }
          return
        }
        const since = await audit.last()
        const shown: string[] = []
        for await (const events of newestPages(audit, filter, { limit: limit ?? defaultLimit })) {
          // Those that were stored meanwhile follow.
          shown.push(...events.filter(({ number }) => number <= since).map((event) => form.of(event)))
        }
        process.stdout.write(shown.reverse().join(''))
        if (follow) await printNew(audit, filter, form, since)
      })
    })
}

/** Prints events as they are stored, without an end. */
async function printNew(audit: Store['audit'], filter: AuditFilter, form: EventForm, since: number): Promise<never> {
  for (let number = since; ;) {
    const { events, last } = await audit.after(number, filter, pageSize)
    process.stdout.write(events.map((event) => form.of(event)).join(''))
    if (last === number) await wait(followInterval)
    number = last
  }
}

/** Lines for people. */
const lines: EventForm = {
  head: '',
  of({ time, kind, result, actor, path, target, subject, fields, error, decidedBy, size, count }) {
    const what = result === 'done' ? kind : `${kind} ${result}`
    const where = [path, target].filter((each) => each !== undefined).join(' → ')
    const who = [actor.name, actor.protocol, actor.address].filter((each) => each !== undefined).join(' ')
    const why = [error, decidedBy].filter((each) => each !== undefined).join(': ')
    const changed = fields?.join(' ')
    const bytes = size === undefined ? '' : `${size} bytes`
    const parts = [new Date(time).toISOString(), who, what, where, subject, changed, bytes]
    const all = [...parts, why, count === undefined ? '' : `${count} times`]
    return `${all
      .filter((part) => part !== undefined && part !== '')
      .map((part) => printable(part ?? ''))
      .join('  ')}\n`
  },
}

/** Throws `invalid`. */
function filterOf({ from, to, user, path, kind, result, address }: AuditFlags): AuditFilter {
  return {
    from: from === undefined ? undefined : parseTime(from).getTime(),
    to: to === undefined ? undefined : parseTime(to).getTime(),
    ...{ user, result, address },
    path: path === undefined ? undefined : treePath(path),
    kinds: kind?.split(',').map(kindOf),
  }
}

function kindOf(text: string): EventKind {
  const kind = eventKinds.find((each) => each === text.trim())
  if (kind === undefined) throw new GatewayError('invalid', { reason: `${text} is no kind of events` })
  return kind
}

function countOf(text: string): number {
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text)
  throw new InvalidArgumentError('It must be a number above 0.')
}
