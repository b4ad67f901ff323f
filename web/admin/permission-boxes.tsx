/** The permissions of a user or of a group, as boxes. Bits without a text stay as they are. */
import { Check } from '../components/check.tsx'
import { textsOf } from '../texts/texts.ts'

const texts = textsOf('accounts')

interface PermissionBoxesProps {
  readonly legend: string
  /** The sum of the permissions. */
  readonly permission: number
  readonly onPermission: (permission: number) => void
}

export function PermissionBoxes({ legend, permission, onPermission }: PermissionBoxesProps) {
  return (
    <fieldset>
      <legend>{legend}</legend>
      {Object.entries(texts.users.permissionTexts).map(([bit, text]) => (
        <Check
          key={bit}
          text={text}
          checked={(permission & Number(bit)) !== 0}
          onChecked={() => onPermission(permission ^ Number(bit))}
        />
      ))}
    </fieldset>
  )
}
