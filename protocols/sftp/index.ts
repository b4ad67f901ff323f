/** SFTP as the daemon starts it. */
import { join } from 'node:path'
import { inGroup } from '../../src/settings/settings-table.js'
import type { Protocol } from '../lib/protocol.js'

export const sftp: Protocol = {
  name: 'sftp',
  permissions: { read: 'sftpRead', manage: 'sftpManage' },
  appPasswords: true,
  listen: { default: '0.0.0.0:5222', description: 'address of the SFTP server, or "off"', optional: true },
  greeting: 'SSH-2.0-Tidegate',
  keys: {
    kind: 'SFTP host key',
    // The only one that the programs have from which an import takes keys.
    file: 'ssh_host_rsa_key',
    async check(text) {
      const { parseHostKey } = await import('./host-keys.js')
      parseHostKey(text, 'it')
    },
    async take(secrets, data, from) {
      const { importHostKeys } = await import('./host-keys.js')
      await importHostKeys(secrets, join(data, 'ssh'), new Date(), from)
    },
  },
  settings: () =>
    inGroup('ftp', {
      sftp_disable_password_login: ['bool', 'false', 'private', 'SFTP accepts only keys.'],
      sftp_keep_partial_uploads: [
        'bool',
        'false',
        'private',
        'If the connection breaks during an upload to a new name, the received part remains, so that the client ' +
          'can resume. Existing files are never overwritten partially.',
      ],
    }),
  async server({ config, opening, pseudonym }, at) {
    const [{ sftpServer }, { loadHostKeys }] = await Promise.all([import('./server.js'), import('./host-keys.js')])
    const hostKeys = await loadHostKeys(join(config.data, 'ssh'), opening)
    return sftpServer(await opening, { ...at, hostKeys, pseudonym })
  },
}
