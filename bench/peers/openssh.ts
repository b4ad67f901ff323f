/** OpenSSH's server with its own SFTP server, as a process of the user who runs the bench. */
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { userInfo } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { freePort } from '../../test/servers/free-port.js'
import { makePrivilegeSeparationFolder } from '../../test/servers/openssh.js'
import { versionLine, type PeerType } from './peer.js'
import { accepts, startProcess } from './process.js'

const run = promisify(execFile)
/** sshd re-executes itself for each connection, which requires an absolute path. */
const program = '/usr/sbin/sshd'

export const openssh: PeerType = {
  name: 'openssh',
  version: async () => (existsSync(program) ? versionLine('ssh', ['-V']) : undefined),
  async start(ground) {
    const folder = join(ground.folder, 'openssh')
    await mkdir(folder)
    const port = await freePort()
    const hostKey = join(folder, 'host_key')
    await run('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', hostKey])
    const lines = [
      `ListenAddress 127.0.0.1:${port}`,
      `HostKey ${hostKey}`,
      `PidFile none`,
      `AuthorizedKeysFile ${ground.clientKey}.pub`,
      'StrictModes no',
      'UsePAM no',
      'PasswordAuthentication no',
      'PermitRootLogin prohibit-password',
      'MaxStartups 100',
      'Subsystem sftp internal-sftp',
      `ForceCommand internal-sftp -d ${ground.files}`,
    ]
    const file = join(folder, 'sshd_config')
    await writeFile(file, `${lines.join('\n')}\n`)
    await makePrivilegeSeparationFolder()
    const running = await startProcess(program, ['-D', '-e', '-f', file], { isReady: () => accepts(port) })
    return { name: 'openssh', sftp: { port, username: userInfo().username }, processes: [running] }
  },
}
