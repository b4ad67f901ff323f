/** A storage on an FTP server, used through the WebDAV door by a program of somebody else. */
import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { emptyFolder, ftpSkip, started } from '../drivers/ftp-mount.js'
import { startGateway } from '../gateway.js'
import { lacks } from '../programs.js'
import { startPureFtpd } from '../services/pure-ftpd.js'
import { startVsftpd } from '../services/vsftpd.js'

const run = promisify(execFile)
const skip = ftpSkip || lacks('rclone')

for (const [name, start] of [
  ['Pure-FTPd', () => startPureFtpd()],
  ['vsftpd', () => startVsftpd()],
] as const) {
  void t.test(
    `rclone copies a tree into a mount on ${name}, and finds no difference`,
    { skip, timeout: 120_000 },
    async (t) => {
      const server = await started(t, start)
      const { path } = await emptyFolder(server)
      const { username, password, port } = server
      const addition = { address: `127.0.0.1:${port}`, username, password, root_folder_path: path }
      const running = await startGateway(t, { driver: { name: 'FTP', addition } })
      const folder = await mkdtemp(join(tmpdir(), 'tidegate-rclone-'))
      t.teardown(() => rm(folder, { recursive: true, force: true }))
      const config = join(folder, 'rclone.conf')
      const { stdout: obscured } = await run('rclone', ['obscure', running.adminPassword])
      const remote = `type = webdav\nurl = ${running.davUrl}\nvendor = owncloud\nuser = admin\npass = ${obscured.trim()}\n`
      await writeFile(config, `[dav]\n${remote}`)
      const rclone = async (...words: readonly string[]): Promise<string> => {
        const options = ['--config', config, '--retries', '1', '--transfers', '8', '-v']
        return (await run('rclone', [...options, ...words], { maxBuffer: 1 << 26 })).stderr
      }
      const tree = '/usr/share/doc'
      const sample = ['--include', '/[a-b]*/**', '--max-size', '1M', '--skip-links']
      await rclone('copy', tree, 'dav:/docs', ...sample)
      t.match(await rclone('check', '--download', tree, 'dav:/docs', ...sample), /0 differences found/)
      t.match(await rclone('copy', tree, 'dav:/docs', ...sample), /nothing to transfer/, 'sizes and times are kept')
      await rclone('moveto', 'dav:/docs', 'dav:/moved')
      t.match(await rclone('check', '--download', tree, 'dav:/moved', ...sample), /0 differences found/)
      await rclone('purge', 'dav:/moved')
      t.equal((await run('rclone', ['--config', config, 'lsf', 'dav:/'])).stdout, '')
    },
  )
}
