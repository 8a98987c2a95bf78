#!/bin/sh
# An agent in shell: reads the prompt, does something, hands on.
prompt=$(cat)
echo "I was told ${#prompt} characters about $PASSDOWN_TASK." >&2
echo "def find(): ..." > find.py
cat <<END
Done.

## Handoff

\`\`\`yaml
outcome: completed
to_agent: qa
summary: find() is there.
files_created: [{path: find.py, purpose: finds}]
\`\`\`
END
