/** The user name and password that every peer but `node` checks with each request over WebDAV. */
import { createHash } from 'node:crypto'

const username = 'bench'
const password = 'a password of the bench'

export const basicHeaders = {
  Authorization: `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`,
}

export const rcloneOptions = ['--user', username, '--pass', password] as const

/**
 * The line of a password file of nginx or Apache. SHA-1 is the fastest to check of the kinds that both know, as they
 * check it with each request.
 */
export const passwordLine = `${username}:{SHA}${createHash('sha1').update(password).digest('base64')}\n`
