/** `tidegate admin …`: the way back in. */
import { join } from 'node:path'
import type { Command } from 'commander'
import { fingerprintOf, parseKeyLine, type PublicKey } from '../accounts/public-keys.js'
import { GatewayError } from '../errors.js'
import { publicHostKeys, rotateHostKeys } from '../host-keys.js'
import { inDataFolder, withCommonOptions, type CommonFlags } from './data-folder.js'
import { formatTable, print } from './output.js'
import { obtainPassword, withPasswordOptions, type PasswordFlags } from './password.js'

export function addAdminCommands(program: Command): void {
  const admin = program
    .command('admin')
    .description("the admin's password, the permanent token of the API, the server's host keys")

  withPasswordOptions(withCommonOptions(admin.command('password')))
    .description("set the admin's password; sessions of the admin end")
    .action((flags: CommonFlags & PasswordFlags) =>
      inDataFolder(flags, async ({ accounts }) => {
        const user = accounts.users.single(2)
        if (user === undefined) throw new GatewayError('not_found', { reason: 'there is no admin in this database' })
        const { password, made } = await obtainPassword(flags)
        await accounts.users.update(user.id, { password })
        const { username } = user
        const told = made ? `${username} has the password ${password}` : `${username} has a new password`
        print(flags, { username, ...(made ? { password } : {}) }, told)
      }),
    )

  withCommonOptions(admin.command('token'))
    .description('print the permanent token: whoever holds it is the admin')
    .option('--reset', 'make a new one first; the old one dies, and signed links with it')
    .action((flags: CommonFlags & { readonly reset?: boolean }) =>
      inDataFolder(flags, async ({ settings }) => {
        const token = flags.reset === true ? await settings.resetToken() : settings.get('token')
        print(flags, { token }, token)
      }),
    )

  withCommonOptions(admin.command('host-keys'))
    .description('print the fingerprints of the SFTP server')
    .option('--rotate', 'make new keys first, used from the next start on; the old ones are kept aside')
    .action((flags: CommonFlags & { readonly rotate?: boolean }) =>
      inDataFolder(flags, async ({ config }) => {
        const folder = join(config.data, 'ssh')
        const kept = flags.rotate === true ? await rotateHostKeys(folder) : []
        const keys = (await publicHostKeys(folder)).map((line) => ({ ...shown(parseKeyLine(line)), line }))
        const rows = keys.map(({ type, fingerprint }) => [type, fingerprint])
        const told = kept.length > 0 ? '\nThey are used once the daemon has been started again.' : ''
        print(flags, { keys, kept }, formatTable(['type', 'fingerprint'], rows) + told)
      }),
    )
}

function shown({ type, blob }: PublicKey): { readonly type: string; readonly fingerprint: string } {
  return { type, fingerprint: fingerprintOf(blob) }
}
