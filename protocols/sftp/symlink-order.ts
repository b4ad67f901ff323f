/**
 * The order of the two paths of SYMLINK. By the draft (§6.10) the link comes first; OpenSSH's server expects the target
 * first, and its PROTOCOL file (§4.1) asks clients to follow. Some clients do so only for a server that identifies
 * itself as OpenSSH.
 */

export type SymlinkOrder = 'target first' | 'link first'

/**
 * The software of clients that send this server the order of the draft, by the start of their identification (RFC 4253
 * §4.2), with the place in their source that decides: AsyncSSH (sftp.py, `_nonstandard_symlink`), libssh (sftp.c,
 * `sftp_symlink`; not libssh2), phpseclib (SFTP.php, `symlink`), SSHJ (SFTPEngine.java, `symlink`), ssh2 for Node.js
 * (SFTP.js, `symlink`) and WinSCP (SftpFileSystem.cpp, `CreateLink`).
 */
const linkFirst = /^(?:AsyncSSH_|libssh[_-]|phpseclib_|SSHJ_|ssh2js|WinSCP_)/

/** `software`: the software version that the client has sent. An unknown client is expected to follow OpenSSH. */
export function symlinkOrderOf(software: string): SymlinkOrder {
  return linkFirst.test(software) ? 'link first' : 'target first'
}
