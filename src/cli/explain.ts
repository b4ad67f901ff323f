/** `tidegate explain …`: why a user may or may not do something at a path. */
import { Option, type Command } from 'commander'
import { driverTypes } from '../../drivers/index.js'
import { protocols } from '../../protocols/index.js'
import { GatewayError } from '../base/errors.js'
import { rights, type Right } from '../base/rights.js'
import { plainAddress } from '../net/addresses.js'
import type { ExplainQuestion } from '../tree/explain.js'
import type { Explained } from '../tree/explained.js'
import { Rules } from '../tree/folder-rules.js'
import { Grants } from '../tree/grants.js'
import { inDataFolder, withCommonOptions, type CommonFlags } from './data-folder.js'
import { formatTable, print, printable } from './output.js'
import { treePath } from './tree-path.js'
import { findUser } from './users.js'

interface ExplainFlags extends CommonFlags {
  readonly protocol: string
  readonly address?: string
}

export function addExplainCommand(program: Command): void {
  const protocolNames = protocols.map(({ name }) => name)
  withCommonOptions(program.command('explain <username> <right> <path>'))
    .description('say whether a user may do something at a path, and why')
    .addOption(new Option('--protocol <name>', 'by which protocol').choices(protocolNames).default('http'))
    .option('--address <address>', 'that of the client; any by default')
    .addHelpText(
      'after',
      `\nRights: ${rights.join(', ')}. The path is one of the whole tree, as its backend spells it.`,
    )
    .action((username: string, word: string, path: string, flags: ExplainFlags) => {
      const right = rightOf(word)
      const protocol = protocols.find(({ name }) => name === flags.protocol)
      if (protocol === undefined) throw new GatewayError('invalid', { reason: `unknown protocol ${flags.protocol}` })
      const address = addressOf(flags)
      return inDataFolder(flags, async ({ accounts, store }) => {
        findUser(accounts, username)
        // Imported lazily: other commands start faster without it.
        const { explain } = await import('../tree/explain.js')
        const sources = {
          accounts,
          rules: await Rules.load(store),
          grants: await Grants.load(store),
          storages: await store.storages.all(),
          driverTypes,
        }
        const question = { username, right, path: treePath(path), protocol, address }
        const { decidedBy, ...explained } = explain(sources, question)
        print(flags, { ...explained, decided_by: decidedBy }, textOf(question, { ...explained, decidedBy }))
      })
    })
}

function textOf({ username, right, path, protocol }: ExplainQuestion, explained: Explained): string {
  const { allowed, error, decidedBy, steps, notes } = explained
  const verdict = allowed ? 'may' : 'may not'
  const answer = error === null ? '' : ` (${error})`
  const rows = steps.map(({ step, refused, text }) => [step, refused ? 'refuses' : '-', text])
  return [
    printable(`${username} ${verdict} ${right} ${path} by ${protocol.name}${answer}:`),
    printable(decidedBy.text),
    '',
    formatTable(['asked', 'verdict', 'why'], rows),
    ...(notes.length > 0 ? ['', ...notes.map((note) => printable(`Note: ${note}`))] : []),
  ].join('\n')
}

/** Throws `invalid` for an unknown right. */
function rightOf(word: string): Right {
  const right = rights.find((each) => each === word)
  if (right === undefined)
    throw new GatewayError('invalid', { reason: `unknown right ${word}; there are: ${rights.join(', ')}` })
  return right
}

/** Throws `invalid` for what is no address. */
function addressOf({ address }: ExplainFlags): string | undefined {
  if (address === undefined) return undefined
  const plain = plainAddress(address)
  if (plain === undefined) throw new GatewayError('invalid', { reason: `${address} is not an IP address` })
  return plain
}
