/** The report of Debian's ssh-audit on the port, with the host keys of a first run. */
import { spawn } from 'node:child_process'
import { text } from 'node:stream/consumers'
import t from 'tap'
import { startGateway } from '../../gateway.js'
import { findProgram, lacks } from '../../programs.js'

void t.test('ssh-audit reports no failure', { skip: lacks('ssh-audit') }, async (t) => {
  const { sftpPort } = await startGateway(t)
  const child = spawn(findProgram('ssh-audit')!, ['--no-colors', '--port', String(sftpPort), '127.0.0.1'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.teardown(() => child.kill('SIGKILL'))
  const ended = new Promise<number | null>((resolve) => child.once('close', resolve))
  const report = await text(child.stdout)
  const lines = report.split('\n')
  t.match(report, /\(kex\) .*\n/, 'the report contains the key exchange')
  t.match(report, /\(key\) ssh-ed25519 /)
  t.match(report, /\(key\) rsa-sha2-512 \(\d+-bit\)/)
  t.same(
    lines.filter((line) => line.includes('[fail]')),
    [],
  )
  // 2: a warning, because it does not know the name of strict key exchange; 3 means failures, 1 a broken connection.
  t.ok([0, 2].includes((await ended) ?? -1), 'its exit status is success or a warning')
})

void t.test('the RSA host key signs with SHA-2 only, and OpenSSH accepts it', { skip: lacks('sftp') }, async (t) => {
  const { sftpPort } = await startGateway(t)
  const offered = async (algorithm: string) => {
    const options = ['-oBatchMode=yes', '-oUserKnownHostsFile=/dev/null', '-oStrictHostKeyChecking=no']
    const args = [...options, `-oHostKeyAlgorithms=${algorithm}`, '-v', '-P', String(sftpPort), 'nobody@127.0.0.1']
    const child = spawn(findProgram('sftp')!, args, { stdio: ['ignore', 'ignore', 'pipe'] })
    t.teardown(() => child.kill('SIGKILL'))
    const said = await text(child.stderr)
    return said.includes('SSH2_MSG_NEWKEYS received')
  }
  t.equal(await offered('rsa-sha2-512'), true)
  t.equal(await offered('rsa-sha2-256'), true)
  t.equal(await offered('ssh-rsa'), false)
})
