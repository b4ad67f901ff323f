/**
 * The pseudonyms of shares. The id of a share without a code opens it: the audit, webhooks and logs, which reach other
 * people and programs, have its pseudonym instead.
 */
import { createHmac } from 'node:crypto'
import { newSecret } from '../accounts/random-secrets.js'
import type { Store } from '../database/tables.js'

/** Hexadecimal digits: two of 20,000 shares have the same ones with a probability of 1 in 5,000. */
const length = 10

/** Made of the id by a key that only the database has: nobody can find the id by trying all ids. */
export class SharePseudonyms {
  private constructor(private readonly key: string) {}

  /**
   * Opens the pseudonyms with the key of the installation, which is made at the first call. Rejects as the database
   * does.
   */
  static async open(secrets: Pick<Store['secrets'], 'obtain'>): Promise<SharePseudonyms> {
    return new SharePseudonyms(await secrets.obtain('pseudonyms of shares', newSecret()))
  }

  /** The pseudonym of the share of this id, also if there is none. */
  of(id: string): string {
    return createHmac('sha256', this.key).update(id).digest('hex').slice(0, length)
  }
}
