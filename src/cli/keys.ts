/** `tidegate key …` */
import type { Command } from 'commander'
import { GatewayError } from '../base/errors.js'
import type { KeyRow } from '../database/tables/accounts.js'
import { inDataFolder, withCommonOptions, type CommonFlags } from './data-folder.js'
import { readInput } from '../installation/input.js'
import { formatTable, print } from './output.js'
import { findUser } from './users.js'

export function addKeyCommands(program: Command): void {
  const key = program.command('key').description('SSH keys of users: add, list, rm')

  withCommonOptions(key.command('add <username> <file>'))
    .description('add a public key from a file such as ~/.ssh/id_ed25519.pub, or "-" for standard input')
    .option('--title <title>', "its name in lists (default: the key's comment)")
    .action(async (username: string, file: string, flags: CommonFlags & { readonly title?: string }) => {
      const line = await readKeyLine(file)
      await inDataFolder(flags, async ({ accounts }) => {
        const title = flags.title ?? (line.split(/\s+/).slice(2).join(' ') || 'key')
        const row = await accounts.keys.add(findUser(accounts, username).id, title, line)
        print(flags, describe(row, username), `${row.fingerprint} is added for ${username}`)
      })
    })

  withCommonOptions(key.command('list [username]'))
    .description('list the keys of all users, or of one user')
    .action((username: string | undefined, flags: CommonFlags) =>
      inDataFolder(flags, async ({ accounts }) => {
        const users = username === undefined ? accounts.users.list() : [findUser(accounts, username)]
        const keys = users.flatMap((user) => accounts.keys.list(user.id).map((row) => describe(row, user.username)))
        const rows = keys.map((each) => [
          each.id,
          each.username,
          each.title,
          each.type,
          each.fingerprint,
          each.last_used.slice(0, 16).replace('T', ' '),
        ])
        print(flags, keys, formatTable(['id', 'user', 'title', 'type', 'fingerprint', 'last used (UTC)'], rows))
      }),
    )

  withCommonOptions(key.command('rm <username> <key>'))
    .description('remove a key by its id or fingerprint; sessions that it opened end')
    .action((username: string, idOrFingerprint: string, flags: CommonFlags) =>
      inDataFolder(flags, async ({ accounts }) => {
        const user = findUser(accounts, username)
        const row = accounts.keys
          .list(user.id)
          .find(({ id, fingerprint }) => String(id) === idOrFingerprint || fingerprint === idOrFingerprint)
        if (row === undefined) {
          throw new GatewayError('not_found', { reason: `${username} has no key ${idOrFingerprint}` })
        }
        await accounts.keys.delete(user.id, row.id)
        print(flags, describe(row, username), `${row.fingerprint} is removed from ${username}`)
      }),
    )
}

/** The first line that is neither empty nor a comment. */
async function readKeyLine(file: string): Promise<string> {
  const content = await readInput(file, 'key file')
  const line = content.split(/\r?\n/).find((each) => each.trim() !== '' && !each.startsWith('#'))
  if (line === undefined) throw new GatewayError('invalid', { reason: `there is no key in ${file}` })
  return line.trim()
}

function describe(key: KeyRow, username: string) {
  return {
    id: key.id,
    username,
    title: key.title,
    type: key.type,
    fingerprint: key.fingerprint,
    added: key.added.toISOString(),
    last_used: key.lastUsed.toISOString(),
  }
}
