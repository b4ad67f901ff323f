/** `tidegate webhook …` */
import type { Command } from 'commander'
import { GatewayError } from '../base/errors.js'
import type { Replayed, ShownWebhook, Webhooks } from '../webhooks/webhooks.js'
import { readInput } from '../installation/input.js'
import { inDataFolder, withCommonOptions, type CommonFlags } from './data-folder.js'
import { formatTable, print } from './output.js'
import { openWebhooks } from './recording.js'

interface HookFlags extends CommonFlags {
  readonly url?: string
  readonly kind?: readonly string[]
  readonly path?: readonly string[]
}

interface ReplayFlags extends CommonFlags {
  readonly event?: readonly string[]
  readonly from?: string
  readonly to?: string
}

export function addWebhookCommands(program: Command): void {
  const webhook = program
    .command('webhook')
    .description('where events are sent: add, list, edit, enable, disable, rotate, test, failures, replay, rm')

  withEvents(withCommonOptions(webhook.command('add <name> <url>')))
    .description('send events to a URL ("-": from standard input) by POST; prints the secret that signs them')
    .action(async (name: string, text: string, flags: HookFlags) => {
      const { kind = [], path = [] } = flags
      const url = await urlOf(text)
      await withWebhooks(flags, async (webhooks) => {
        const { row, secret } = await webhooks.create({ name, url, kinds: kind, paths: path, enabled: true })
        print(
          flags,
          { ...describe(row), secret },
          `the webhook ${name} is added; its secret, shown only now:\n${secret}`,
        )
      })
    })

  withCommonOptions(webhook.command('list'))
    .description('list webhooks')
    .action((flags: CommonFlags) =>
      withWebhooks(flags, async (webhooks) => {
        const hooks = (await webhooks.list()).map(describe)
        const rows = hooks.map(({ id, name, url, kinds, paths, enabled, waiting, failed, disabled_reason: reason }) => {
          return [id, name, url, kinds.join(','), paths.join(','), enabled, waiting, failed, reason ?? '']
        })
        const columns = ['id', 'name', 'url', 'kinds', 'paths', 'on', 'waiting', 'failed', 'switched off because']
        print(flags, hooks, formatTable(columns, rows))
      }),
    )

  withEvents(withCommonOptions(webhook.command('edit <name>')))
    .description('change what is given, and leave the rest')
    .option('--url <url>', 'a new URL; "-": from standard input')
    .action(async (name: string, flags: HookFlags) => {
      const { url: text, kind: kinds, path: paths } = flags
      const url = text === undefined ? undefined : await urlOf(text)
      if ([url, kinds, paths].every((each) => each === undefined)) {
        throw new GatewayError('invalid', { reason: 'nothing to change: see "tidegate webhook edit --help"' })
      }
      await withHook(flags, name, async (webhooks, { id }) => {
        await webhooks.update(id, { url, kinds, paths })
        print(flags, { id, name }, `the webhook ${name} is changed`)
      })
    })

  for (const [verb, enabled] of [
    ['enable', true],
    ['disable', false],
  ] as const) {
    withCommonOptions(webhook.command(`${verb} <name>`))
      .description(enabled ? 'send events again; those that were waiting too' : 'send no events')
      .action((name: string, flags: CommonFlags) =>
        withHook(flags, name, async (webhooks, { id }) => {
          await webhooks.update(id, { enabled })
          print(flags, { id, name, enabled }, `the webhook ${name} is ${verb}d`)
        }),
      )
  }

  withCommonOptions(webhook.command('rotate <name>'))
    .description('make a new secret, and print it; the one before signs too for a day')
    .action((name: string, flags: CommonFlags) =>
      withHook(flags, name, async (webhooks, { id }) => {
        const secret = await webhooks.rotate(id)
        print(flags, { id, name, secret }, secret)
      }),
    )

  withCommonOptions(webhook.command('test <name>'))
    .description('send a test event from this machine; status 1 unless the receiver accepts it')
    .action((name: string, flags: CommonFlags) =>
      withHook(flags, name, async (webhooks, { id }) => {
        const outcome = await webhooks.test(id)
        print(flags, outcome, outcome.error ?? `accepted with status ${outcome.status} in ${outcome.milliseconds} ms`)
        if (outcome.error !== undefined) process.exitCode = 1
      }),
    )

  withCommonOptions(webhook.command('failures <name>'))
    .description('list the events that a webhook could not be given, at most 1,000')
    .action((name: string, flags: CommonFlags) =>
      withHook(flags, name, async (webhooks, { id }) => {
        const failures = await webhooks.deliveries(id, true, { after: 0, limit: 1000 })
        const shown = failures.map(({ eventId, attempts, lastError, failedAt, body }) => {
          const { type, subject = '' } = JSON.parse(body) as { type: string; subject?: string }
          return { event_id: eventId, type, subject, attempts, error: lastError ?? '', failed: failedAt?.toISOString() }
        })
        const rows = shown.map((each) => [each.event_id, each.type, each.subject, each.attempts, each.error])
        print(flags, shown, formatTable(['event', 'type', 'path', 'attempts', 'the last error'], rows))
      }),
    )

  withCommonOptions(webhook.command('replay <name>'))
    .description('deliver again what has failed, some events, or those of a time that match the webhook')
    .option('--event <id...>', 'ids of events')
    .option('--from <time>', 'such as 2030-12-31T23:59:59Z')
    .option('--to <time>', 'default: now')
    .action((name: string, flags: ReplayFlags) => {
      const which = replayedOf(flags)
      return withHook(flags, name, async (webhooks, { id }) => {
        const count = await webhooks.replay(id, which)
        print(flags, { id, name, count }, `${count} events are delivered again`)
      })
    })

  withCommonOptions(webhook.command('rm <name>'))
    .description('remove a webhook, with what it still has to get')
    .action((name: string, flags: CommonFlags) =>
      withHook(flags, name, async (webhooks, hook) => {
        await webhooks.delete(hook.id)
        print(flags, describe(hook), `the webhook ${name} is removed`)
      }),
    )
}

/** Some URLs are secrets, and every user of the machine can read a command line. */
async function urlOf(text: string): Promise<string> {
  return text === '-' ? (await readInput('-', 'URL')).trim() : text
}

function withEvents(command: Command): Command {
  return command
    .option('--kind <kinds...>', 'names of events such as file.stored, or file.*; default: all')
    .option('--path <patterns...>', 'paths of the whole tree, and what is below; default: all')
}

function replayedOf({ event: eventIds, from, to }: ReplayFlags): Replayed {
  const invalid = (reason: string) => new GatewayError('invalid', { reason })
  if (from === undefined && to === undefined) return eventIds === undefined ? 'failed' : { eventIds }
  if (from === undefined || eventIds !== undefined) throw invalid('--to needs --from, and neither goes with --event')
  const range = { from: Date.parse(from), to: to === undefined ? Date.now() : Date.parse(to) }
  if (Number.isNaN(range.from + range.to)) throw invalid('a time is written as 2030-12-31T23:59:59Z')
  return range
}

function withWebhooks(flags: CommonFlags, work: (webhooks: Webhooks) => Promise<void>): Promise<void> {
  return inDataFolder(flags, async (folder) => work(await openWebhooks(folder)))
}

/** Finds a webhook by its name. Rejects with `not_found`. */
function withHook(
  flags: CommonFlags,
  name: string,
  work: (webhooks: Webhooks, hook: ShownWebhook) => Promise<void>,
): Promise<void> {
  return withWebhooks(flags, async (webhooks) => {
    const hook = (await webhooks.list()).find((each) => each.name === name)
    if (hook === undefined) throw new GatewayError('not_found', { reason: `there is no webhook ${name}` })
    await work(webhooks, hook)
  })
}

function describe({ disabledReason, oldSecretEnds, created, ...hook }: ShownWebhook) {
  return {
    ...hook,
    disabled_reason: disabledReason ?? null,
    created: created.toISOString(),
    old_secret_ends: oldSecretEnds?.toISOString() ?? null,
  }
}
