"""What is measured: operations, their inputs, the answers that are right, and suites of cases."""
