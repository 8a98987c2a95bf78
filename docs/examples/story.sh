passdown init
passdown task new T-1 --title "Login" --agent planner
passdown task new T-2 --title "Staging roll-out" --agent planner --needs T-1
passdown decide "JWT in an httpOnly cookie" --why "scripts cannot read it" --task T-1 --agent planner
passdown handoff --task T-1 --from planner --to coder --outcome completed --phase implementing --next "Write the middleware"
mkdir -p src/auth && echo "def issue(): ..." > src/auth/jwt.py
cat > handoff.yaml <<END
task: T-1
from_agent: coder
to_agent: tester
outcome: partial
summary: Tokens are issued and checked; refresh is missing.
files_created: [{path: src/auth/jwt.py, purpose: Issues and checks tokens}]
suggested_next_steps: [{step: Add refresh tokens, priority: high}]
blockers: [{blocker: No signing key for staging, blocking_tasks: [T-2]}]
END
passdown handoff handoff.yaml --dry-run
passdown handoff handoff.yaml
passdown task list
passdown brief T-1 --agent tester --budget 300
passdown show T-1#d1
passdown diff T-1 1 4
passdown verify
