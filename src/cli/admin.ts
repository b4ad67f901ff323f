/** `tidegate admin …`: the way back in. */
import type { Command } from 'commander'
import { GatewayError } from '../errors.js'
import { inDataFolder, withCommonOptions, type CommonFlags } from './data-folder.js'
import { print } from './output.js'
import { obtainPassword, withPasswordOptions, type PasswordFlags } from './password.js'

export function addAdminCommands(program: Command): void {
  const admin = program.command('admin').description("the admin's password, and the permanent token of the API")

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
}
