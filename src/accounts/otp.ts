/** One-time codes: RFC 6238 with SHA-1, six digits, steps of 30 seconds. */
import { generateSecret, generateURI, verifySync } from 'otplib'

/** 20 random bytes in base32, for authenticator apps. */
export function newOtpSecret(): string {
  return generateSecret({ length: 20 })
}

/** The `otpauth:` URI that authenticator apps read from a QR code. */
export function otpUri(secret: string, username: string): string {
  return generateURI({ issuer: 'Tidegate', label: username, secret })
}

/** Whether authenticator apps and `otpStep` can use the secret: 128 bits or more in base32. */
export function isOtpSecret(secret: string): boolean {
  return /^[A-Z2-7]{26,256}=*$/.test(secret)
}

/**
 * The time step of `code`: that of `now` (milliseconds since 1970), the previous or the next one, because clocks
 * differ. Undefined for a wrong or malformed code.
 */
export function otpStep(secret: string, code: string, now: number): number | undefined {
  if (!/^\d{6}$/.test(code)) return undefined
  try {
    const result = verifySync({ secret, token: code, epoch: now / 1000, epochTolerance: 30 })
    return result.valid && 'timeStep' in result ? result.timeStep : undefined
  } catch {
    // The secret is not base32 of at least 16 bytes.
    return undefined
  }
}
