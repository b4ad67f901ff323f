/** `tidegate admin …`: recovers the admin's access, and manages host keys. */
import { join } from 'node:path'
import { Option, type Command } from 'commander'
import { fingerprintOf, parseKeyLine, type KeyFingerprint, type PublicKey } from '../accounts/public-keys.js'
import { GatewayError } from '../base/errors.js'
import { inDataFolder, withCommonOptions, type CommonFlags } from './data-folder.js'
import { formatTable, print } from './output.js'
import { readPassword, withPasswordOptions, type PasswordFlags } from './password.js'

export function addAdminCommands(program: Command): void {
  const admin = program
    .command('admin')
    .description("the admin's password, the permanent token of the API, the server's host keys")

  withPasswordOptions(withCommonOptions(admin.command('password')))
    .description("set the admin's password; sessions of the admin end")
    .action((flags: CommonFlags & PasswordFlags) =>
      inDataFolder(flags, async ({ accounts }) => {
        const user = accounts.users.byUniqueRole('admin')
        if (user === undefined) throw new GatewayError('not_found', { reason: 'there is no admin in this database' })
        const { password, generated } = await readPassword(flags)
        await accounts.users.update(user.id, { password })
        const { username } = user
        const message = generated ? `${username} has the password ${password}` : `${username} has a new password`
        print(flags, { username, ...(generated ? { password } : {}) }, message)
      }),
    )

  withCommonOptions(admin.command('token'))
    .description('print the permanent token, which grants all rights of the admin')
    .option('--reset', 'generate a new token first; the old one and all signed URLs become invalid')
    .action((flags: CommonFlags & { readonly reset?: boolean }) =>
      inDataFolder(flags, async ({ settings }) => {
        const token = flags.reset === true ? await settings.resetToken() : settings.get('token')
        print(flags, { token }, token)
      }),
    )

  withCommonOptions(admin.command('host-keys'))
    .description('print the fingerprints of the SFTP server')
    .option('--rotate', 'generate new keys first, used from the next start on; the old ones are backed up')
    .addOption(
      new Option('--import', 'first take keys of your own from the files in the folder ssh').conflicts('rotate'),
    )
    .action((flags: CommonFlags & { readonly rotate?: boolean; readonly import?: boolean }) =>
      inDataFolder(flags, async ({ config, store: { secrets } }) => {
        const folder = join(config.data, 'ssh')
        // Imported lazily: it loads the library of SSH, which other commands do not need.
        const { importHostKeys, publicHostKeys, rotateHostKeys } = await import('../../protocols/sftp/host-keys.js')
        const change = flags.rotate === true ? rotateHostKeys : flags.import === true ? importHostKeys : undefined
        const kept = (await change?.(secrets, folder)) ?? []
        const keys = (await publicHostKeys(secrets)).map((line) => ({ ...describe(parseKeyLine(line)), line }))
        const rows = keys.map(({ type, fingerprint }) => [type, fingerprint])
        const note = change ? '\nA daemon uses the new keys from its next start.' : ''
        print(flags, { keys, kept }, formatTable(['type', 'fingerprint'], rows) + note)
      }),
    )
}

function describe({ type, blob }: PublicKey): KeyFingerprint {
  return { type, fingerprint: fingerprintOf(blob) }
}
