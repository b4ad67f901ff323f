/** `tidegate sign-ins …`: whose sign-ins are refused after too many failures. */
import { Option, type Command } from 'commander'
import { z } from 'zod'
import type { LockedSignIn } from '../accounts/locked-sign-ins.js'
import { GatewayError } from '../base/errors.js'
import { plainAddress } from '../net/addresses.js'
import { askDaemon } from './daemon-request.js'
import { inDataFolder, withCommonOptions, type CommonFlags } from './data-folder.js'
import { formatTable, print } from './output.js'
import { doneByDaemon } from './recording.js'
import { findUser } from './users.js'

/**
 * The locks, in the form in which the daemon sends them. Only the daemon knows them if no other process uses its
 * database.
 */
const lockedData = z.array(
  z.object({
    kind: z.enum(['address', 'pair', 'codes']),
    network: z.string().nullable(),
    username: z.string().nullable(),
    failures: z.number(),
    until: z.string(),
  }),
)

function describe({ kind, network, username, failures, until }: LockedSignIn) {
  return { kind, network: network ?? null, username: username ?? null, failures, until: until.toISOString() }
}

interface UnlockFlags extends CommonFlags {
  readonly address?: string
  readonly user?: string
}

export function addSignInCommands(program: Command): void {
  const signIns = program
    .command('sign-ins')
    .description('sign-ins that are refused after too many failures: list, unlock')

  withCommonOptions(signIns.command('list'))
    .description('list whose sign-ins are refused now, and until when')
    .action((flags: CommonFlags) =>
      inDataFolder(flags, async (folder) => {
        const told = await askDaemon(folder, '/api/admin/sign-ins')
        const stored = async () => (await folder.accounts.lockedSignIns.list()).map(describe)
        const locked = told === undefined ? await stored() : lockedData.parse(told)
        const rows = locked.map(({ kind, network, username, failures, until }) => {
          return [kind, network ?? '', username ?? '', failures, until]
        })
        print(flags, locked, formatTable(['refused', 'from', 'user', 'failures', 'until'], rows))
      }),
    )

  withCommonOptions(signIns.command('unlock'))
    .description('forget the failed sign-ins of an address, or of a user with its wrong codes')
    .addOption(new Option('--address <address>', 'an address, or a network of the list').conflicts('user'))
    .option('--user <username>', 'a user, for all addresses')
    .action((flags: UnlockFlags) =>
      inDataFolder(flags, async (folder) => {
        const { address, user } = flags
        if (user !== undefined) findUser(folder.accounts, user)
        else if (address === undefined || !isNetwork(address)) {
          throw new GatewayError('invalid', { reason: 'name an IP address with --address, or a user with --user' })
        }
        const fields = user === undefined ? { network: address } : { username: user }
        const told = await askDaemon(folder, '/api/admin/sign-ins/unlock', fields)
        if (told !== undefined) doneByDaemon(flags)
        else if (user === undefined) await folder.accounts.lockedSignIns.unlockNetwork(address ?? '')
        else await folder.accounts.lockedSignIns.unlockUser(user)
        print(flags, fields, `the failed sign-ins of ${user ?? address ?? ''} are forgotten`)
      }),
    )
}

/** Whether it is an address, or the network of one as `networkOf` writes it. */
function isNetwork(text: string): boolean {
  return plainAddress(text.replace(/::\/64$/, '::')) !== undefined
}
